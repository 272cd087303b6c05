// Package plugin runs deployers as separate processes: it finds them in a directory, starts and restarts them, asks what they
// serve and carries calls to them. hashicorp/go-plugin and the protocol's messages stay inside.
//
// Each failure is the failure of one plugin: a file that is no program, a program that is no plugin, a plugin that dies, hangs
// or talks nonsense is named in the log and in Set.Status and leaves the others alone.
//
// # A plugin's life
//
// Every plugin has one supervisor, the only goroutine that starts its process. Each attempt has a fresh command and a fresh
// go-plugin client, because neither can be used twice. When the process ends the supervisor waits, longer from time to time,
// and starts it again; it never gives up. After a minute of life the waiting starts over.
//
// # Claims
//
// A plugin serves a deploy item type if no other plugin claims it. Two that claim one type, or go by one name, are both
// refused: which of them an item reaches must not depend on which one started first.
package plugin
