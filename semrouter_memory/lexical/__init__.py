"""The words of a text, for searching by words. Pure; English and Chinese, other scripts as far as spaces go."""
