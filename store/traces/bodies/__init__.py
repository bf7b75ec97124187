"""Bodies of requests and responses: cut into pieces that later requests share, and joined again."""
