package managedresource

// ContinuousReconcile says when a deploy item that is finished is reconciled although nothing has changed. At most
// one field may be set; without any there is no schedule. Package sdk/hook/continuousreconcile reads and carries it
// out.
//
// A job of its own is started when the item is due, and never while another is under way. Times that are missed,
// because no host ran or another job took long, come once, later. The annotation
// continuousreconcile.extensions.landscaper.gardener.cloud/active with the value "false" suspends the schedule.
type ContinuousReconcile struct {
	// Every is the time from the start of one job to that of the next, whatever the first was started for, as
	// time.ParseDuration reads it: "90s", "1h30m". At least a second.
	Every string `json:"every,omitempty"`
	// Cron is a schedule in cron's format with five fields, such as "0 8 * * *", or one of its words, such as "@daily".
	// It is in UTC unless a zone comes first: "CRON_TZ=Europe/Berlin 0 8 * * *". The times come whether there was
	// another job shortly before or not. Note that "* */1 * * *" is each minute; "0 */1 * * *" is once an hour.
	Cron string `json:"cron,omitempty"`
}
