// Package terminal writes what commands have to say for people: tables, notes below a line, colours. What plugins, users and clusters
// say reaches the terminal as text and nothing else: Printable writes out what it would take for a command.
package terminal
