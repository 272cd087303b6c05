// Package watch tells deployers when objects on targets have changed that deploy items wait for, so that nobody has to
// wait for the next poll.
//
// A Set watches just the objects that deploy items follow, and of these nothing but the metadata. Objects that
// deployers have labelled share one watch per target, resource and namespace, whoever they belong to; any other object
// has a watch of its own, by its name. A watch that is not allowed or does not work is tried again less and less often
// and does no other harm: the polls go on.
package watch
