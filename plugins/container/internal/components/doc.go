// Package components finds what a provider configuration of the container deployer refers to in the component model:
// the files of a blueprint, and component descriptors with all that they refer to. It also reads file systems that stand
// in documents.
package components
