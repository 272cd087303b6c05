// Package components resolves the references of the container deployer's provider configuration in the component
// model: the files of a blueprint, and component descriptors with all components referenced by them. It also reads
// file systems in documents.
package components
