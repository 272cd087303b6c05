// Package apply creates objects on a target cluster and brings those that exist to their manifests.
//
// # One object
//
// decide looks at an object, its manifest and what the inventory has about it, and says what is to be done. Run does
// it; Diff does the same as a dry run. What is to be written is computed by the update strategy of the manifest, see
// change.
//
// # Order
//
// Objects are applied in stages: CustomResourceDefinitions, and nothing else until they are established; then
// cluster-scoped objects, namespaces among them; then namespaced ones. Within a stage several are applied at once, and
// the errors of all are reported. An object of an unknown kind does not keep the others from being applied.
//
// # Requests
//
// An object that is not in the inventory with its uid costs one request, a POST. One that is costs a GET, and a write
// only if there is something to write. Server-side apply has no request that creates but does not change, so it begins
// with a GET; and so does the policy fallback, whose objects may be somebody else's for ever, or each job would send a
// POST for nothing.
//
// Where the inventory has more than three objects of a kind in a namespace, they are read with a list of what carries
// the item's label, so that a job that finds hundreds of objects as they should be costs a few requests.
//
// # When there is something to write
//
// Comparing the manifest with the object cannot decide whether to write: the API server fills in defaults, normalizes
// quantities, webhooks add to lists, and managedFields do not help because a default that was filled in at creation
// belongs to whoever created the object, just like a field of the manifest. A field that is only in the object may thus
// be a default or a leftover, and one that differs may be drift or only spelt differently.
//
// What does decide is memory. After each write the inventory gets a hash of two things: the manifest with the settings
// that say how it is written, and those fields of the object, as the API server returned it, that the manifest names.
// As long as both are the same, the manifest has not changed since (so there are no leftovers) and what it names looks
// as it looked when it was written (so there is no drift). Otherwise the object is written, unless it already is
// exactly what would be sent. The hash is removed from the inventory before a changed manifest is written, so that a
// crash between the write and the note of it cannot leave one that is wrong. Where there is no hash, such as in a
// status that Landscaper wrote, a dry run of the write tells whether it would change anything.
//
// A JSON merge patch holds only what differs, and no resourceVersion. If its answer shows anything else than it was to
// lead to, somebody else may have changed the object right before; it gets no hash then, and the next job compares.
//
// Fields that the manifest does not name belong to others until the manifest itself changes: replicas set by an
// autoscaler or a CA bundle injected into a webhook configuration are no reason to write.
//
// # Objects that others write
//
// Observe reads objects that somebody else writes, such as Helm, and compares them with hashes of the same kind: one is
// made of an object as it was seen right after it was written, and tells later on whether somebody has changed what the
// manifest names. Such objects carry no label of a deploy item, so their plan is made without an owner.
//
// # Objects that go by themselves
//
// A Job with a TTL, and whatever a controller deletes when it has done its work, is gone sooner or later, and is not
// missed: what was done for a job of the deploy item is not created again by that job, nor by those that a schedule
// starts after it. The inventory has the job, see ManagedResourceStatus.DoneIn and Plan.Done. A new job of the user,
// and a changed manifest, create it again. The gap that is left is that between a write and its note in the inventory:
// an object that goes within it is created again by who comes after a crash.
//
// # After the deployment
//
// Patch makes the changes that are for objects that are ready. They have a part of the hash of their own: a field that
// the patch sets and the manifest does not name is repaired by the patch, and one that both name is no reason to write
// the manifest as long as it looks as it looked after the patch. With server-side apply there is one write too many
// when the hash is lost: the fields of the patch are not applied ones, and whether others were left behind shows only
// when all are made so.
package apply
