// Package watch tells deployers about changes of objects their deploy items wait for, so that there is no need to
// wait for the next poll, and about changes of the deployed objects of finished items.
//
// A Set watches only the followed objects of deploy items, and of these only the metadata. Objects labelled by
// deployers or by Helm share one watch per target, resource and namespace, whatever their items; any other object has a
// watch of its own, by its name. A forbidden or failing watch is tried again less and less often and does no other
// harm: the polls go on.
package watch
