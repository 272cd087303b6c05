package managedresource

// ContinuousReconcile is the schedule of a finished deploy item: it is then reconciled although nothing has changed. At
// most one field may be set; without any there is no schedule. Package sdk/hook/continuousreconcile reads and carries
// it out.
//
// A job of its own is started when the item is due, and never while another is under way. Missed times, because no host
// ran or another job took long, come once, later. The annotation
// continuousreconcile.extensions.landscaper.gardener.cloud/active with the value "false" suspends the schedule.
type ContinuousReconcile struct {
	// Every is the time from the start of one job of any cause to the start of the next, as time.ParseDuration reads it:
	// "90s", "1h30m". At least a second.
	Every string `json:"every,omitempty"`
	// Cron is a schedule in cron's format with five fields, such as "0 8 * * *", or one of its words, such as "@daily".
	// It is in UTC unless a zone comes first: "CRON_TZ=Europe/Berlin 0 8 * * *". The times come whether there was
	// another job shortly before or not. Note that "* */1 * * *" is each minute; "0 */1 * * *" is once an hour.
	Cron string `json:"cron,omitempty"`
}
