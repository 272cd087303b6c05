// Package v0 has an older version of the configuration in package dns.
package v0

// Zone has records with another form.
type Zone struct {
	Records []Record `json:"records"`
}

// Record of a zone.
type Record struct {
	Host string `json:"host"`
}
