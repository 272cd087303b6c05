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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxWorkers is far more than one API server bears.
	maxWorkers = 1000
	// maxRate bounds the limits of the client, so that they fit the types of its library.
	maxRate = 1_000_000
	// maxIdentity bounds what is written into the status of every item.
	maxIdentity = 253
	// maxDuration bounds the text of a duration.
	maxDuration = 64
	// maxLockPrefix leaves room in the name of a lock for the names of plugin and item.
	maxLockPrefix = 40
	// minLease and maxLease bound the time until a replica counts as dead. It shows signs of life several times in it, and an API
	// server that is restarted or slow must not make it dead.
	minLease = 3 * time.Second
	maxLease = time.Hour
	// minSilence leaves room for the word that a plugin sends in a call at least every 10s to be late.
	minSilence = 15 * time.Second
	maxSilence = time.Hour
	// minHook and maxHook bound a call of hooks, which an item's job waits for.
	minHook = time.Second
	maxHook = 5 * time.Minute
	// minInterval keeps hooks from filling the queue with one item; maxInterval is as long as anybody may want to bound them.
	minInterval = time.Second
	maxInterval = 24 * time.Hour
	// minCollectInterval keeps the looks for what is left behind from being work of their own.
	minCollectInterval = time.Minute
	// maxEndpoint bounds the address of a collector: a DNS name and a port.
	maxEndpoint = 253 + 1 + 5
	// maxCrashes bounds how often one job may end a plugin.
	maxCrashes = 100
)

// lockings, verifications, logLevels and logFormats are the values of Locking, Verification and of the fields of Log.
var (
	lockings      = []string{string(LockingAuto), string(LockingOn), string(LockingOff)}
	verifications = []string{string(VerificationRequired), string(VerificationOff)}
	logLevels     = []string{"debug", "info", "warn", "error"}
	logFormats    = []string{"json", "text"}
)

// Validate returns everything that is wrong with a configuration. The detail of an error is a sentence that says what was
// expected and what was found.
func Validate(c *HostConfiguration) field.ErrorList {
	var errs field.ErrorList
	add := func(err *field.Error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(constant(field.NewPath("apiVersion"), APIVersion, c.APIVersion))
	add(constant(field.NewPath("kind"), Kind, c.Kind))
	add(validateIdentity(field.NewPath("identity"), c.Identity))
	_, selectorErrs := responsibility.Compile(c.TargetSelectors, field.NewPath("targetSelectors"))
	errs = append(errs, selectorErrs...)
	add(validateTargetServiceAccount(field.NewPath("targetServiceAccount"), c.TargetServiceAccount))
	add(between(field.NewPath("workers"), c.Workers, 1, maxWorkers))
	add(oneOf(field.NewPath("locking"), lockings, string(c.Locking)))
	add(validateLockPrefix(field.NewPath("lockPrefix"), c.LockPrefix))
	errs = append(errs, validateTimeouts(field.NewPath("timeouts"), c.Timeouts)...)
	add(between(field.NewPath("maxPluginCrashes"), c.MaxPluginCrashes, 1, maxCrashes))
	errs = append(errs, lasts(field.NewPath("collectInterval"), c.CollectInterval, minCollectInterval, maxInterval, "1m to 24h")...)
	errs = append(errs, validateContinuousReconcile(field.NewPath("continuousReconcile"), c.ContinuousReconcile)...)
	errs = append(errs, validateClient(field.NewPath("client"), c.Client)...)
	add(validateClusterDomain(field.NewPath("clusterDomain"), c.ClusterDomain))
	add(validateAddress(field.NewPath("listenAddress"), c.ListenAddress))
	add(validatePprofAddress(field.NewPath("pprofAddress"), c.PprofAddress))
	errs = append(errs, validateTracing(field.NewPath("tracing"), c.Tracing)...)
	errs = append(errs, validateStatusPage(field.NewPath("statusPage"), c.StatusPage)...)
	add(oneOf(field.NewPath("log", "level"), logLevels, c.Log.Level))
	add(oneOf(field.NewPath("log", "format"), logFormats, c.Log.Format))
	add(oneOf(field.NewPath("verification"), verifications, string(c.Verification)))
	errs = append(errs, validateSet(field.NewPath("pluginFiles"), c.PluginFiles, validatePluginFile)...)
	errs = append(errs, validatePlugins(field.NewPath("plugins"), c.Plugins)...)
	return errs
}

func constant(path *field.Path, want, found string) *field.Error {
	switch found {
	case want:
		return nil
	case "":
		return field.Required(path, fmt.Sprintf("is missing; expected %q", want))
	default:
		return invalid(path, "expected %q, but found %s", want, quote(found))
	}
}

func validateIdentity(path *field.Path, identity string) *field.Error {
	if identity == "" {
		return field.Required(path, "expected a name for this installation, but it is empty")
	}
	if len(identity) > maxIdentity || strings.ContainsFunc(identity, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return invalid(path, "expected at most %d printable characters, but found %s", maxIdentity, quote(identity))
	}
	return nil
}

func validateTargetServiceAccount(path *field.Path, name string) *field.Error {
	if name != "" && len(apivalidation.ValidateServiceAccountName(name, false)) > 0 {
		return invalid(path, "expected the name of a ServiceAccount, such as deployer, but found %s", quote(name))
	}
	return nil
}

func between(path *field.Path, found, least, most int) *field.Error {
	if found < least || found > most {
		return invalid(path, "expected a number from %d to %d, but found %d", least, most, found)
	}
	return nil
}

func validateLockPrefix(path *field.Path, prefix string) *field.Error {
	foreign := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) }
	if len(prefix) > maxLockPrefix || strings.HasPrefix(prefix, "-") || strings.ContainsFunc(prefix, foreign) {
		return invalid(path, "expected at most %d of a-z, 0-9 and -, without - at the beginning, but found %s", maxLockPrefix, quote(prefix))
	}
	return nil
}

func validateTimeouts(path *field.Path, t Timeouts) field.ErrorList {
	var errs field.ErrorList
	for _, timeout := range []struct {
		name string
		span v1alpha1.Duration
	}{{"pickup", t.Pickup}, {"progressing", t.Progressing}} {
		if len(timeout.span) > maxDuration {
			errs = append(errs, invalid(path.Child(timeout.name), "expected a duration such as 10m, but found %s", quote(string(timeout.span))))
			continue
		}
		if _, _, err := timeout.span.Parse(); err != nil {
			errs = append(errs, invalid(path.Child(timeout.name), "%s", err.Error()))
		}
	}
	for _, timeout := range []struct {
		name string
		span metav1.Duration
	}{{"abort", t.Abort}, {"pluginStart", t.PluginStart}, {"pluginStop", t.PluginStop}, {"shutdown", t.Shutdown}} {
		if timeout.span.Duration <= 0 {
			errs = append(errs, invalid(path.Child(timeout.name), "expected a duration above zero, such as 30s, but found %s", timeout.span.Duration))
		}
	}
	errs = append(errs, lasts(path.Child("pluginSilence"), t.PluginSilence, minSilence, maxSilence, "15s to 1h")...)
	errs = append(errs, lasts(path.Child("hook"), t.Hook, minHook, maxHook, "1s to 5m")...)
	return append(errs, lasts(path.Child("lease"), t.Lease, minLease, maxLease, "3s to 1h")...)
}

// lasts checks that a duration is within bounds, which a text names as people write them.
func lasts(path *field.Path, found metav1.Duration, least, most time.Duration, bounds string) field.ErrorList {
	if found.Duration < least || found.Duration > most {
		return field.ErrorList{invalid(path, "expected a duration from %s, but found %s", bounds, found.Duration)}
	}
	return nil
}

func validateContinuousReconcile(path *field.Path, c ContinuousReconcile) field.ErrorList {
	errs := lasts(path.Child("minimumInterval"), c.MinimumInterval, minInterval, maxInterval, "1s to 24h")
	return append(errs, lasts(path.Child("jitter"), c.Jitter, 0, maxInterval, "0s to 24h")...)
}

func validateClusterDomain(path *field.Path, domain string) *field.Error {
	if len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return invalid(path, "expected a DNS name such as cluster.local, but found %s", quote(domain))
	}
	return nil
}

func validateClient(path *field.Path, c Client) field.ErrorList {
	var errs field.ErrorList
	if c.QPS != 0 && (c.QPS < 1 || c.QPS > maxRate) {
		errs = append(errs, invalid(path.Child("qps"), "expected a number from 1 to %d, or 0 for no limit, but found %g", maxRate, c.QPS))
	}
	if c.Burst < 0 || c.Burst > maxRate {
		errs = append(errs, invalid(path.Child("burst"), "expected a number from 1 to %d, or 0 for no limit, but found %d", maxRate, c.Burst))
	}
	switch {
	case c.QPS != 0 && c.Burst == 0:
		errs = append(errs, field.Required(path.Child("burst"), "is missing; set it together with qps, or neither for no limit"))
	case c.QPS == 0 && c.Burst != 0:
		errs = append(errs, field.Required(path.Child("qps"), "is missing; set it together with burst, or neither for no limit"))
	}
	return errs
}

func validateAddress(path *field.Path, address string) *field.Error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return invalid(path, "expected host and port such as :8080 or 127.0.0.1:8080, but found %s", quote(address))
	}
	return nil
}

func validatePprofAddress(path *field.Path, address string) *field.Error {
	if address == "" {
		return nil
	}
	if err := validateAddress(path, address); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(address) // it was split before
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return invalid(path, "expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found %s", quote(address))
	}
	return nil
}

func validateTracing(path *field.Path, t Tracing) field.ErrorList {
	var errs field.ErrorList
	if t.Endpoint != "" {
		host, port, err := net.SplitHostPort(t.Endpoint)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || host == "" || len(t.Endpoint) > maxEndpoint || strings.ContainsAny(host, "/@") {
			errs = append(errs, invalid(path.Child("endpoint"), "expected host and port of a collector, such as collector:4317, but found %s", quote(t.Endpoint)))
		}
	}
	if !(t.SampleRatio > 0 && t.SampleRatio <= 1) { // also for what is no number
		errs = append(errs, invalid(path.Child("sampleRatio"), "expected a number above 0 and up to 1, but found %g; leave the endpoint out for no traces", t.SampleRatio))
	}
	return errs
}

func validateStatusPage(path *field.Path, p StatusPage) field.ErrorList {
	errs := validateSet(path.Child("hostNames"), p.HostNames, func(path *field.Path, name string) *field.Error {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return invalid(path, "expected a DNS name such as status.example.org, but found %s", quote(name))
		}
		return nil
	})
	if p.ListenAddress == "" {
		return errs
	}
	return append(errs, present(validateAddress(path.Child("listenAddress"), p.ListenAddress))...)
}

func oneOf(path *field.Path, values []string, found string) *field.Error {
	if slices.Contains(values, found) {
		return nil
	}
	last := len(values) - 1
	return invalid(path, "expected %s or %s, but found %s", strings.Join(values[:last], ", "), values[last], quote(found))
}

func invalid(path *field.Path, format string, args ...any) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...)) // the sentence says what was found
}
