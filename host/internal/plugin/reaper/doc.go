// Package reaper ends what plugins leave behind.
//
// A plugin is killed together with its process group. A process that has left the group, as a daemon does, would live on as a child of
// the machine's first process. Here it becomes a child of this process instead, which kills it, and waits for it, so that it does not
// stay as a zombie either; where this process is the first one, as in a container, nobody else would.
//
// An orphan is a child of this process that is neither in its process group, where those are that other libraries start, such as
// credential plugins of client-go, nor in the group of a plugin. So a plugin cannot leave a daemon behind on purpose either: it is
// killed as soon as the process that has started it ends, even while the plugin runs.
//
// When this process itself is killed nobody is left to do this: orphans live on then.
package reaper
