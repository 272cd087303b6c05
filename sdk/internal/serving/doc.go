// Package serving has the parts of a plugin's server that do not depend on the deployer.
package serving
