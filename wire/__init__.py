"""The Messages API: requests and responses, parsed once into values for all other modules."""
