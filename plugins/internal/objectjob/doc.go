// Package objectjob carries out a job on the objects of a deploy item: it applies them, deletes those no longer
// wanted, waits for their readiness, reads exports, and records all this in the provider status. A deployer puts the
// steps together and brings the source of its objects.
package objectjob
