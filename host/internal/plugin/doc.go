// Package plugin runs deployers as processes of their own: it finds them in a directory, starts and restarts them,
// settles their claims, and carries calls to them. Package launch starts a process, processlog takes its output, and
// session makes its calls.
//
// Each failure is the failure of one plugin: a file without a program, a program without a handshake, a plugin which
// dies, hangs, grows or breaks the protocol is named in the log and in Set.Status, and leaves the others alone.
//
// # A plugin's life
//
// Every plugin has one supervisor, the only goroutine to start its process. Each attempt has a fresh command, a fresh
// go-plugin client and a fresh directory; none can be used twice. After the end of the process the supervisor waits,
// ever longer, and starts it again; it never gives up. After a minute of life the waiting starts over. Type lifecycle
// has the states, without effects.
//
// A plugin without deploy items has no process, because most hosts have more plugins than their users need: once in a
// minute the host looks whether there are items for it, or a call under way, and the next of them starts it again. The
// first start is needed all the same: it tells the types of the plugin.
//
// The file of the first start is hashed, held open and executed by its descriptor: neither a restart nor a race picks
// up another one in its place.
//
// # Wedged plugins
//
// The host kills a process, with all of its descendants, if it answers no health check for a while (Options.Silence),
// or is silent for so long in a call, although calls promise heartbeats; if it exceeds its memory; or if it reports
// itself unhealthy for so long, because of a call that goes on after its cancellation. A call which ends with its
// process fails with ErrCrashed if it may be the cause, and with ErrNotRunning if something else surely is: a job must
// not crash its plugin for ever, and an innocent one must not be given up.
//
// # Claims
//
// A plugin serves a deploy item type if no other plugin claims it. At the start of the host two plugins with one type
// or one name are both refused: the order of their starts must not matter. A later claim of a served type is refused
// alone. Hooks are no claim: those of several plugins may run for the items of one type, and a plugin may have hooks
// only.
package plugin
