package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/selector"
)

const (
	// maxWorkers is far more than one API server bears.
	maxWorkers = 1000
	// maxRate bounds the limits of the client, so that they fit the types of its library.
	maxRate = 1_000_000
	// maxIdentity bounds the name in the status of every item.
	maxIdentity = 253
	// maxLockPrefix leaves room in the name of a lock for the names of plugin and item.
	maxLockPrefix = 40
	// maxCrashes bounds how often one job may end a plugin.
	maxCrashes = 100

	day = 24 * time.Hour
)

// Validate returns every problem of a configuration. The detail of an error is a sentence with the expected and the
// found value.
func Validate(h *HostConfiguration) field.ErrorList {
	c := &checker{}
	c.version(metav1.TypeMeta{APIVersion: h.APIVersion, Kind: h.Kind})
	printable := !strings.ContainsFunc(h.Identity, func(r rune) bool { return !strconv.IsPrint(r) })
	c.check(h.Identity != "" && len(h.Identity) <= maxIdentity && printable, field.NewPath("identity"),
		"expected 1 to %d printable characters, but found %q", maxIdentity, h.Identity)
	c.namespaces(field.NewPath("namespaces"), h.Namespaces)
	_, errs := selector.Compile(h.TargetSelectors, field.NewPath("targetSelectors"))
	c.errs = append(c.errs, errs...)
	account := h.TargetServiceAccount
	c.check(account == "" || len(apivalidation.ValidateServiceAccountName(account, false)) == 0,
		field.NewPath("targetServiceAccount"),
		"expected the name of a ServiceAccount, such as deployer, but found %q", account)
	c.between(field.NewPath("workers"), h.Workers, 1, maxWorkers)
	c.oneOf(field.NewPath("locking"), string(h.Locking), string(LockingAuto), string(LockingOn), string(LockingOff))
	c.oneOf(field.NewPath("keepReferences"), string(h.KeepReferences), string(KeepAuto), string(KeepOn), string(KeepOff))
	foreign := strings.Trim(h.LockPrefix, "abcdefghijklmnopqrstuvwxyz0123456789-")
	c.check(len(h.LockPrefix) <= maxLockPrefix && !strings.HasPrefix(h.LockPrefix, "-") && foreign == "",
		field.NewPath("lockPrefix"), "expected at most %d of a-z, 0-9 and -, without - at the beginning, but found %q",
		maxLockPrefix, h.LockPrefix)
	c.timeouts(field.NewPath("timeouts"), h.Timeouts)
	// Hooks must not fill the queue with one item, nor the search for obsolete holdings be work of its own.
	reconcile := field.NewPath("continuousReconcile")
	c.lasts(reconcile.Child("minimumInterval"), h.ContinuousReconcile.MinimumInterval, time.Second, day)
	c.lasts(reconcile.Child("jitter"), h.ContinuousReconcile.Jitter, 0, day)
	if h.ContinuousReconcile.DefaultInterval.Duration != 0 {
		c.lasts(reconcile.Child("defaultInterval"), h.ContinuousReconcile.DefaultInterval, time.Minute, 7*day)
	}
	c.retries(field.NewPath("retries"), h.Retries)
	c.between(field.NewPath("maxPluginCrashes"), h.MaxPluginCrashes, 1, maxCrashes)
	c.lasts(field.NewPath("collectInterval"), h.CollectInterval, time.Minute, day)
	c.client(field.NewPath("client"), h.Client)
	c.dnsName(field.NewPath("clusterDomain"), h.ClusterDomain, "cluster.local")
	c.addresses(h)
	c.oneOf(field.NewPath("log", "level"), h.Log.Level, "debug", "info", "warn", "error")
	c.oneOf(field.NewPath("log", "format"), h.Log.Format, "json", "text")
	c.oneOf(field.NewPath("verification"), string(h.Verification),
		string(VerificationRequired), string(VerificationOff))
	for i, file := range h.PluginFiles {
		c.file(field.NewPath("pluginFiles").Index(i), file)
	}
	c.plugins(field.NewPath("plugins"), h.Plugins)
	return c.errs
}

// checker collects problems.
type checker struct {
	errs field.ErrorList
}

// check notes a problem, unless right.
func (c *checker) check(right bool, at *field.Path, format string, args ...any) {
	if !right {
		c.errs = append(c.errs, invalid(at, format, args...))
	}
}

func invalid(at *field.Path, format string, args ...any) *field.Error {
	// The sentence quotes the value.
	return field.Invalid(at, field.OmitValueType{}, fmt.Sprintf(format, args...))
}

func (c *checker) version(is metav1.TypeMeta) {
	const expected = "expected %q, but found %q"
	c.check(is.APIVersion == APIVersion, field.NewPath("apiVersion"), expected, APIVersion, is.APIVersion)
	c.check(is.Kind == Kind, field.NewPath("kind"), expected, Kind, is.Kind)
}

func (c *checker) between(at *field.Path, found, least, most int) {
	c.check(least <= found && found <= most, at, "expected a number from %d to %d, but found %d", least, most, found)
}

func (c *checker) lasts(at *field.Path, found Duration, least, most time.Duration) {
	c.check(least <= found.Duration && found.Duration <= most, at, "expected a duration from %s to %s, but found %s",
		duration.HumanDuration(least), duration.HumanDuration(most), found)
}

func (c *checker) oneOf(at *field.Path, found string, values ...string) {
	last := len(values) - 1
	c.check(slices.Contains(values, found), at, "expected %s or %s, but found %q",
		strings.Join(values[:last], ", "), values[last], found)
}

func (c *checker) dnsName(at *field.Path, found, example string) {
	c.check(len(validation.IsDNS1123Subdomain(found)) == 0, at,
		"expected a DNS name such as %s, but found %q", example, found)
}

// namespaces checks the names of namespaces, each once.
func (c *checker) namespaces(at *field.Path, found []string) {
	for i, name := range found {
		c.check(len(apivalidation.ValidateNamespaceName(name, false)) == 0, at.Index(i),
			"expected the name of a namespace, such as shop, but found %q", name)
		c.check(!slices.Contains(found[:i], name), at.Index(i), "expected each namespace once, but found %q again", name)
	}
}

func (c *checker) timeouts(at *field.Path, t Timeouts) {
	_, _, err := t.Pickup.Parse()
	c.check(err == nil, at.Child("pickup"), "%v", err)
	_, _, err = t.Progressing.Parse()
	c.check(err == nil, at.Child("progressing"), "%v", err)
	for _, timeout := range []struct {
		name  string
		found Duration
	}{{"abort", t.Abort}, {"pluginStart", t.PluginStart}, {"shutdown", t.Shutdown}} {
		c.check(timeout.found.Duration > 0, at.Child(timeout.name),
			"expected a duration above zero, such as 30s, but found %s", timeout.found)
	}
	// A plugin in a call reports every 10s, or a little later.
	c.lasts(at.Child("pluginSilence"), t.PluginSilence, 15*time.Second, time.Hour)
	c.lasts(at.Child("hook"), t.Hook, time.Second, 5*time.Minute)
	// A replica renews its lease several times in it, and a slow or restarted API server must not make the replica
	// dead.
	c.lasts(at.Child("lease"), t.Lease, 3*time.Second, time.Hour)
}

func (c *checker) retries(at *field.Path, r Retries) {
	first, wanted, err := r.First.Parse()
	c.check(err == nil, at.Child("first"), "%v", err)
	if err != nil || !wanted {
		return
	}
	if first < time.Second || first > day {
		c.lasts(at.Child("first"), Duration{first}, time.Second, day)
		return
	}
	c.lasts(at.Child("longest"), r.Longest, first, day)
}

func (c *checker) client(at *field.Path, limits Client) {
	c.check(limits.QPS == 0 || limits.QPS >= 1 && limits.QPS <= maxRate, at.Child("qps"),
		"expected a number from 1 to %d, or 0 for no limit, but found %g", maxRate, limits.QPS)
	c.check(limits.Burst >= 0 && limits.Burst <= maxRate, at.Child("burst"),
		"expected a number from 1 to %d, or 0 for no limit, but found %d", maxRate, limits.Burst)
	c.check(limits.QPS == 0 || limits.Burst != 0, at.Child("burst"),
		"is missing; set it together with qps, or neither for no limit")
	c.check(limits.QPS != 0 || limits.Burst == 0, at.Child("qps"),
		"is missing; set it together with burst, or neither for no limit")
}

func (c *checker) addresses(h *HostConfiguration) {
	const expected = "expected host and port such as %s, but found %q"
	_, ok := hostOf(h.ListenAddress)
	c.check(ok, field.NewPath("listenAddress"), expected, ":8080 or 127.0.0.1:8080", h.ListenAddress)
	if h.PprofAddress != "" {
		host, ok := hostOf(h.PprofAddress)
		ok = ok && (host == "localhost" || net.ParseIP(host).IsLoopback())
		c.check(ok, field.NewPath("pprofAddress"), "expected a loopback address such as 127.0.0.1:6060, "+
			"because profiles are not for others to see, but found %q", h.PprofAddress)
	}
	tracing := field.NewPath("tracing")
	if h.Tracing.Endpoint != "" {
		host, ok := hostOf(h.Tracing.Endpoint)
		c.check(ok && host != "" && !strings.ContainsAny(host, "/@"), tracing.Child("endpoint"),
			"expected host and port of a collector, such as collector:4317, but found %q", h.Tracing.Endpoint)
	}
	c.check(h.Tracing.SampleRatio > 0 && h.Tracing.SampleRatio <= 1, tracing.Child("sampleRatio"),
		"expected a number above 0 and up to 1, but found %g; leave the endpoint out for no traces",
		h.Tracing.SampleRatio)
	page := field.NewPath("statusPage")
	for i, name := range h.StatusPage.HostNames {
		c.dnsName(page.Child("hostNames").Index(i), name, "status.example.org")
	}
	if h.StatusPage.ListenAddress != "" {
		_, ok := hostOf(h.StatusPage.ListenAddress)
		c.check(ok, page.Child("listenAddress"), expected, ":9080", h.StatusPage.ListenAddress)
	}
}

// hostOf is the host of an address with a port; not ok if it is none.
func hostOf(address string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil
}
