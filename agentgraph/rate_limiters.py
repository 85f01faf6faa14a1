"""Limits on how often a chat model is asked: langchain-core's, for `rate_limiter=` of a chat model."""

from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter"]
