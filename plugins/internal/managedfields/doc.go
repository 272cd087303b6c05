// Package managedfields reads the record of an API server about the managers of an object's fields.
package managedfields
