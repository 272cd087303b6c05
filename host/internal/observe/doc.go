// Package observe is what happens to the jobs of deploy items on one replica, as events. The controller tells of them in few places, and does not
// know what becomes of them: metrics, traces and the status page are made by Observers, which do not know each other.
//
// What is told goes with the context: a Stream begins a look at an item, Tell and Begin say what happens in it, and SetJob says which job it is
// a look at, once that is known. With a context that no Stream has touched they do nothing, so that nobody has to ask.
//
// An event says nothing that the status or the events of its item do not say as well: neither what is deployed, nor exports, nor credentials.
package observe
