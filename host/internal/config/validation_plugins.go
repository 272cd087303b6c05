package config

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/host/internal/pluginimage"
)

const (
	// minMemory is the need of a working plugin; maxMemory is more than one needs.
	minMemory Bytes = 64 << 20
	maxMemory Bytes = 1 << 40
	// minOpenFiles is the need of a working plugin; maxOpenFiles is the kernel's own default limit.
	minOpenFiles = 64
	maxOpenFiles = 1 << 20
)

var (
	sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)
	variable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are the variables set by the host, and those that make the dynamic linker load unverified code.
	reserved = regexp.MustCompile(`^(PERGOLA_.*|PLUGIN_.*|LD_.*|GOMEMLIMIT|TMPDIR)$`)
)

func (c *checker) plugins(at *field.Path, plugins map[string]Plugin) {
	owners := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		entry, p := at.Child(name), plugins[name]
		c.check(len(validation.IsDNS1123Label(name)) == 0, entry,
			"expected the name that a plugin gives itself, a DNS label such as helm")
		c.plugin(entry, p)
		file := p.EffectiveFile(name)
		owner, taken := owners[file]
		c.check(!taken, entry.Child("file"), "expected a file of its own, but %q is that of plugin %q", file, owner)
		owners[file] = name
	}
}

func (c *checker) plugin(at *field.Path, p Plugin) {
	if p.File != "" {
		c.file(at.Child("file"), p.File)
	}
	c.check(p.SHA256 == "" || sha256Sum.MatchString(p.SHA256), at.Child("sha256"),
		"expected the 64 lower-case hexadecimal digits of a SHA-256, but found %q", p.SHA256)
	if p.Image != "" {
		_, err := pluginimage.Parse(p.Image, p.SHA256)
		c.check(err == nil, at.Child("image"), "%v", err)
	}
	c.check(p.Path == "" || p.Image != "", at.Child("path"), "has no effect without image; name the one that it is in")
	c.check(p.Path == "" || path.IsAbs(p.Path) && path.Clean(p.Path) == p.Path, at.Child("path"),
		"expected an absolute path without . and .., and without needless slashes, but found %q", p.Path)
	for i, name := range p.Environment {
		c.check(variable.MatchString(name), at.Child("environment").Index(i),
			"expected the name of an environment variable, letters, digits and _, but found %q", name)
		c.check(!reserved.MatchString(name), at.Child("environment").Index(i),
			"expected a variable that plugins may be given, but found %q; "+
				"PERGOLA_*, PLUGIN_*, LD_*, GOMEMLIMIT and TMPDIR are reserved", name)
	}
	c.between(at.Child("workers"), p.Workers, 0, maxWorkers)
	c.between(at.Child("workersPerTarget"), p.WorkersPerTarget, 0, maxWorkers)
	if p.DefaultTimeout.Duration != 0 {
		c.lasts(at.Child("defaultTimeout"), p.DefaultTimeout, time.Second, 7*day)
	}
	c.check(p.Memory == 0 || p.Memory >= minMemory && p.Memory <= maxMemory, at.Child("memory"),
		"expected an amount from %s to %s, or 0 for no limit, but found %s", minMemory, maxMemory, p.Memory)
	c.check(p.OpenFiles == 0 || p.OpenFiles >= minOpenFiles && p.OpenFiles <= maxOpenFiles, at.Child("openFiles"),
		"expected a number from %d to %d, or 0 for as many as the host, but found %d",
		minOpenFiles, maxOpenFiles, p.OpenFiles)
	c.confinement(at.Child("confinement"), p.Confinement)
	if p.HostCluster != nil {
		c.serviceAccount(at.Child("hostCluster", "serviceAccount"), p.HostCluster.ServiceAccount)
	}
	// The value stays out: it may be a password.
	c.check(len(p.Config) == 0 || p.Config[0] == '{', at.Child("config"),
		"expected an object with the fields that the plugin documents")
}

// file checks the name of a file in the plugin directory.
func (c *checker) file(at *field.Path, name string) {
	c.check(name != "" && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/"), at,
		"expected the name of a file in the plugin directory, without / and without a dot at the beginning, but found %q",
		name)
}

func (c *checker) confinement(at *field.Path, confinement Confinement) {
	c.oneOf(at.Child("mode"), string(confinement.EffectiveMode()),
		string(ConfinementAuto), string(ConfinementRequired), string(ConfinementOff))
	c.reach(at.Child("read"), confinement.Mode, confinement.Read)
	c.reach(at.Child("write"), confinement.Mode, confinement.Write)
}

// reach checks additional paths of a confined plugin.
func (c *checker) reach(at *field.Path, mode ConfinementMode, paths []string) {
	c.check(mode != ConfinementOff || len(paths) == 0, at,
		"has no effect with mode off; leave it out, or choose another mode")
	for i, found := range paths {
		c.check(path.IsAbs(found) && path.Clean(found) == found, at.Index(i),
			"expected an absolute path without . and .., and without needless slashes, but found %q", found)
		c.check(found != "/", at.Index(i),
			`expected a part of the file system, but found "/", which leaves nothing to confine; use mode off for that`)
	}
}

func (c *checker) serviceAccount(at *field.Path, account ServiceAccount) {
	c.check(len(validation.IsDNS1123Label(account.Namespace)) == 0, at.Child("namespace"),
		"expected the name of a namespace, but found %q", account.Namespace)
	c.check(len(validation.IsDNS1123Subdomain(account.Name)) == 0, at.Child("name"),
		"expected the name of a ServiceAccount, but found %q", account.Name)
}
