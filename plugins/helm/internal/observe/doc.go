// Package observe reads the objects of a release and finds their drift since Helm has written them. It changes nothing.
//
// The hashes in the inventory are of the same kind as those of package desired: a hash is made of an object as it was
// right after its write, and later shows changes by others to the manifest's fields. The objects carry no label of a
// deploy item, so their plan is made without an owner.
package observe
