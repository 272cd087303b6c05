// Command house checks how host, sdk, plugins and the pages read: sizes of packages, circles of files, and the English
// of comments, texts and pages. `make verify` runs it at the root of the repository.
//
//	go run ./test/house
//
// It prints each breach with its figure, its limit and the worst sentences, and exits with 1 if there is one. Breaches
// in exceptions.txt are allowed for now; an entry there without a breach is an error.
package main
