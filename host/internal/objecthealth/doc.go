// Package objecthealth shows in deployed items whether their objects are still healthy, where there is no Landscaper.
// After a wake-up a plugin is asked, and the condition Ready has its answer. No job starts.
package objecthealth
