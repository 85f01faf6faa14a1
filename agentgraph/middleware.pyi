"""The ready-made middleware is in ../middleware; type checkers and editors find it through this file."""

from middleware import *
