"""Prompts in, replies out: real back ends, a cache that pays once, recorded replies, costs before and after."""
