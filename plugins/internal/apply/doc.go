// Package apply creates objects on a target cluster and brings existing ones to their manifests.
//
// # One object
//
// decide compares an object with its manifest and its entry in the inventory, and returns the action. Run performs
// it; Diff performs it as a dry run. The update strategy of the manifest computes the object to be written, see
// change.
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
// # When there is something to write
//
// A comparison of the manifest with the object cannot decide about a write: the API server fills in defaults and
// normalizes quantities, webhooks add to lists, and managedFields do not help, because a default filled in at
// creation belongs to the creator of the object, just like a field of the manifest. A field only in the object may
// thus be a default or a leftover, and a different one may be drift or only another spelling.
//
// The record of the last write decides. After each write the inventory gets a hash of two things: the manifest with
// the settings for its writes, and the manifest's fields in the object, as the API server returned it. While both are
// the same, the manifest has not changed (so there are no leftovers), and its fields are as they were after the write
// (so there is no drift). Otherwise the object is written, unless it already is exactly as it would be sent. The hash
// is removed from the inventory before a changed manifest is written, so a crash between the write and its record
// cannot leave a wrong one. Without a hash, such as in a status written by Landscaper, a dry run of the write shows
// whether it would change anything.
//
// A JSON merge patch holds only the differences, and no resourceVersion. If its answer differs from the intended
// object, another client may have changed the object right before; then it gets no hash, and the next job compares.
//
// Fields outside the manifest belong to others until the manifest itself changes: replicas set by an autoscaler or a
// CA bundle injected into a webhook configuration are no reason to write.
//
// # Objects of other clients
//
// Observe reads objects written by another client, such as Helm, and compares them with hashes of the same kind: a
// hash is made of an object as it was right after its write, and later shows changes by others to the manifest's
// fields. Such objects carry no label of a deploy item, so their plan is made without an owner.
//
// # Completed objects
//
// A Job with a TTL, and any object that a controller deletes after its work, is gone sooner or later, and is not
// missed: an object completed for a job of the deploy item is not created again by this job, nor by the jobs that a
// schedule starts after it. The inventory names the job, see ManagedResourceStatus.DoneIn and Plan.Done. A new job of
// the user and a changed manifest create the object again. A gap is left between a write and its record in the
// inventory: an object gone within it is created again after a crash.
//
// # After the deployment
//
// Patch makes the changes that are for ready objects. They have a part of the hash of their own: the patch repairs
// its fields outside the manifest, and a field of both is no reason to write the manifest as long as it is as it was
// after the patch. With server-side apply there is one write too many when the hash is lost: the fields of the patch
// are not applied ones, and only a write that makes all fields so shows whether others were left behind.
package apply
