// Package plugin runs deployers as separate processes: it finds them in a directory, verifies, starts and restarts
// them, asks what they serve and carries calls to them. hashicorp/go-plugin and the protocol's messages stay inside.
//
// Each failure is the failure of one plugin: a file that is no program, a program that is no plugin, a plugin that
// dies, hangs, grows or talks nonsense is named in the log and in Set.Status and leaves the others alone.
//
// # A plugin's life
//
// Every plugin has one supervisor, the only goroutine that starts its process. Each attempt has a fresh command, a
// fresh go-plugin client and a fresh directory, because none can be used twice. When the process ends the supervisor
// waits, longer from time to time, and starts it again; it never gives up. After a minute of life the waiting starts
// over. The account of this is kept by lifecycle, which does nothing itself.
//
// What is started is the file as it was when the plugin was started first: it was hashed then, is held open since, and
// is executed by that descriptor. Neither a restart nor a race picks up another one in its place.
//
// # Wedged plugins
//
// A process that answers no health check for a while (Options.Silence), or says nothing for so long in a call, although
// calls promise heartbeats, is killed with all that it has started. So is one that takes more memory than it may, or
// says for so long that it is unhealthy, because a call goes on that was cancelled. A call that ends with its process
// fails with ErrCrashed if it may be to blame, and with ErrNotRunning if something else surely is: a job that crashes
// its plugin again and again is not to be tried for ever, and one that was merely there is.
//
// # Claims
//
// A plugin serves a deploy item type if no other plugin claims it. Two that claim one type at the start of the host, or
// go by one name, are both refused: which of them an item reaches must not depend on which one started first. Who comes
// to claim later what another one serves is refused alone. Hooks are no such claim: those of several plugins may run
// for the items of one type, whoever serves it, and a plugin may bring nothing else.
package plugin
