// Package docs tests that what the pages for people show is so: programs compile and do what the page says, objects
// are of their types, and links lead somewhere.
package docs
