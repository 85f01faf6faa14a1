"""What ../middleware holds: the contract and the ready-made entries. Type checkers and editors find it through this."""

from middleware import *
