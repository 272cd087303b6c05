// Package program opens a program file of the plugin directory and says whether it may be run.
//
// A file is opened once. What is checked, hashed and executed is that one open file, and never its name again: whoever exchanges
// the file meanwhile exchanges it for the next start, and not behind the back of a check.
package program
