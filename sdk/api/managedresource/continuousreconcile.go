package managedresource

// ContinuousReconcile says when a deploy item is reconciled although nothing has changed. Exactly one field is set.
type ContinuousReconcile struct {
	// Every is the time between two reconciliations, as time.ParseDuration reads it.
	Every string `json:"every,omitempty"`
	// Cron is a schedule in cron's format.
	Cron string `json:"cron,omitempty"`
}
