// Package document reads and changes JSON documents of users and deployers.
package document
