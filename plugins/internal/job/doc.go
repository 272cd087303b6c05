// Package job carries out a job on the objects of a deploy item: it applies them, deletes those that are not wanted
// any more, waits until they are ready, reads exports, and keeps account of all that in the provider status. Deployers
// put its steps together, and bring what is their own: where the objects come from.
package job
