// Package inspect tells what a DeployItem shows of itself: a line of a list, an account of everything that is known
// about it, the tree of what it has deployed, and what can be asked of it.
//
// Nothing that it returns holds a value of a Secret, of an export or of a provider configuration. Its texts are for
// terminals: what clusters and plugins say is in them as text and nothing else, as Printable has it. The documents,
// which are for programs, have it as it is.
package inspect
