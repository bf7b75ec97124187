// Datasette's table.js asks for this.
var DATASETTE_ALLOW_FACET = true;
