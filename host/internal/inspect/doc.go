// Package inspect describes DeployItems: a line of a list, all details, the tree of objects, and allowed operations.
//
// Its results have no values of Secrets, exports or provider configurations. Its texts are for terminals, without
// control characters; its documents are for programs, with unchanged values.
package inspect
