// Package ocm reads component versions of the component model (OCM), and the content of their resources, from OCI
// registries. Package component reads the documents, and package fetch gets them.
package ocm
