// Package objects has the requests and readers for applying, observing and pruning objects of a target.
package objects
