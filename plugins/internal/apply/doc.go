// Package apply creates objects on a target cluster and brings existing ones to their manifests.
//
// # One object
//
// Package desired decides about an object, and Run acts accordingly; Diff makes the same requests as dry runs.
//
// # Order
//
// Objects are applied in stages: CustomResourceDefinitions, and nothing else until they are established; then
// cluster-scoped objects, namespaces among them; then namespaced ones. Within a stage several are applied at once,
// and the errors of all are reported. An object of an unknown kind does not keep the others from being applied.
//
// # Requests
//
// An object without a uid in the inventory costs one request, a POST. Any other costs a GET, and a write only if
// there is something to write. Server-side apply has no request for a creation alone, so it begins with a GET. So
// does the policy fallback: its objects may belong to others for ever, and each job would send a POST for nothing.
//
// Where the inventory has more than three objects of a kind in a namespace, they are read with a list by the item's
// label; so a job with hundreds of unchanged objects costs a few requests.
//
// # Writes
//
// A JSON merge patch holds only the differences, and no resourceVersion. If its answer differs from the intended
// object, another client may have changed the object right before; then it gets no hash, and the next job compares.
//
// # After the deployment
//
// Patch makes the changes that are for ready objects. They have a part of the hash of their own: the patch repairs
// its fields outside the manifest, and a field of both is no reason to write the manifest as long as it is as it was
// after the patch. With server-side apply there is one write too many when the hash is lost: the fields of the patch
// are not applied ones, and only a write that makes all fields so shows whether others were left behind.
package apply
