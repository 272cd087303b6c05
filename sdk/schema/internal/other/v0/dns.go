// Package v0 has types with the names of those in package dns.
package v0

// Zone has records with another form.
type Zone struct {
	Records []Record `json:"records"`
}

// Record of a zone.
type Record struct {
	Label string `json:"label"`
}
