// Package desired decides about one object: what it is to be, and what has to be done to it. It sends no requests.
//
// # One object
//
// An Object is a manifest with its settings. Decide compares it with the object on the target and with its entry in
// the inventory, and returns the action. The update strategy of the manifest computes the object to be written, see
// Wanted.
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
// Fields outside the manifest belong to others until the manifest itself changes: replicas set by an autoscaler or a
// CA bundle injected into a webhook configuration are no reason to write.
//
// # Completed objects
//
// A Job with a TTL, and any object that a controller deletes after its work, is gone sooner or later, and is not
// missed: an object completed for a job of the deploy item is not created again by this job, nor by the jobs that a
// schedule starts after it. The inventory names the job, see ManagedResourceStatus.DoneIn and Progress. A new job of
// the user and a changed manifest create the object again. A gap is left between a write and its record in the
// inventory: an object gone within it is created again after a crash.
package desired
