"""Bodies of requests and responses: cut into pieces that later requests share, and put together again."""
