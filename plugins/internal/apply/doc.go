// Package apply creates objects on a target cluster and brings those that exist to their manifests.
//
// # Order
//
// Objects are applied in stages: CustomResourceDefinitions, and nothing else until they are established; then cluster-scoped
// objects, namespaces among them; then namespaced ones. Within a stage several are applied at once, and the errors of all are
// reported.
//
// # Requests
//
// An object that is not on the ledger costs one request, a POST. One that is costs a GET, and a PUT only if there is something
// to write.
//
// # When there is something to write
//
// The manifest replaces the object: fields that are removed from the manifest go away, fields that it names are repaired when
// somebody else changed them. Comparing the manifest with the object cannot decide whether to write: the API server fills in
// defaults, normalizes quantities, webhooks add to lists, and managedFields do not help because a default that was filled in
// at creation belongs to whoever created the object, just like a field of the manifest. A field that is only in the object may
// thus be a default or a leftover, and one that differs may be drift or only spelt differently.
//
// What does decide is memory. After each write the ledger gets a digest of two things: the manifest, and those fields of the
// object, as the API server returned it, that the manifest names. As long as both are the same, the manifest has not changed
// since (so there are no leftovers) and what it names looks as it looked when it was written (so there is no drift). Otherwise
// the object is written. The digest is struck off the ledger before a changed manifest is written, so that a crash between the
// write and the note of it cannot leave one that is wrong. Where there is no digest, such as in a
// status that Landscaper wrote, the object is written once; the API server does not store a write that changes nothing.
//
// Fields that the manifest does not name belong to others until the manifest itself changes: replicas set by an autoscaler or
// a CA bundle injected into a webhook configuration are no reason to write.
package apply
