"""Downloads of filtered lists as JSON Lines and Parquet."""
