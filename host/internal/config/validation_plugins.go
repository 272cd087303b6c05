package config

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxEntries bounds the lists about plugins.
	maxEntries = 100
	// maxFile, maxPath and maxArg are what the kernel allows, in bytes.
	maxFile = 255
	maxPath = 4095
	maxArg  = 128<<10 - 1
	// maxVariable bounds the name of an environment variable.
	maxVariable = 255
	// minMemory is what a plugin needs that does something; maxMemory is more than one needs.
	minMemory Bytes = 64 << 20
	maxMemory Bytes = 1 << 40
	// minOpenFiles is what a plugin needs that does something; maxOpenFiles is what the kernel allows unless told otherwise.
	minOpenFiles = 64
	maxOpenFiles = 1 << 20
)

// confinementModes are the values of the mode; empty stands for one of them.
var confinementModes = []string{string(ConfinementAuto), string(ConfinementRequired), string(ConfinementOff)}

func validatePlugins(at *field.Path, plugins map[string]Plugin) field.ErrorList {
	var errs field.ErrorList
	owners := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		entry := child(at, name)
		if len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, invalid(entry, "expected the name that a plugin gives itself, a DNS label such as helm"))
		}
		errs = append(errs, validatePlugin(entry, plugins[name])...)
		file := plugins[name].EffectiveFile(name)
		owner, taken := owners[file]
		if !taken {
			owners[file] = name
			continue
		}
		errs = append(errs, invalid(entry.Child("file"), "expected a file of its own, but %s is that of plugin %s", quote(file), quote(owner)))
	}
	return errs
}

func validatePlugin(at *field.Path, p Plugin) field.ErrorList {
	return slices.Concat(
		present(validateFile(at.Child("file"), p.File), validateSum(at.Child("sha256"), p.SHA256)),
		validateList(at.Child("args"), p.Args, validateArg),
		validateSet(at.Child("environment"), p.Environment, validateVariable),
		present(
			between(at.Child("workers"), p.Workers, 0, maxWorkers),
			validateMemory(at.Child("memory"), p.Memory),
			validateOpenFiles(at.Child("openFiles"), p.OpenFiles),
		),
		validateConfinement(at.Child("confinement"), p.Confinement),
		validateHostCluster(at.Child("hostCluster", "serviceAccount"), p.HostCluster))
}

// validatePluginFile is validateFile, and there must be a name.
func validatePluginFile(at *field.Path, file string) *field.Error {
	if file == "" {
		return field.Required(at, "expected the name of a file in the plugin directory, but it is empty")
	}
	return validateFile(at, file)
}

func validateFile(at *field.Path, file string) *field.Error {
	if len(file) > maxFile || strings.HasPrefix(file, ".") || strings.ContainsAny(file, "/\x00") {
		return invalid(at, "expected the name of a file in the plugin directory, at most %d bytes without / and without a dot at the beginning, but found %s", maxFile, quote(file))
	}
	return nil
}

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

func validateSum(at *field.Path, sum string) *field.Error {
	if sum != "" && !sha256Sum.MatchString(sum) {
		return invalid(at, "expected the 64 lower-case hexadecimal digits of a SHA-256, but found %s", quote(sum))
	}
	return nil
}

func validateArg(at *field.Path, arg string) *field.Error {
	if len(arg) > maxArg || strings.Contains(arg, "\x00") {
		return invalid(at, "expected an argument of at most %d bytes without a null byte, but found %s", maxArg, quote(arg))
	}
	return nil
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// reserved are the variables that the host sets, and those that make the dynamic linker run other programs than the verified.
	reserved = regexp.MustCompile(`^(PERGOLA_.*|PLUGIN_.*|LD_.*|GOMEMLIMIT|TMPDIR)$`)
)

func validateVariable(at *field.Path, name string) *field.Error {
	switch {
	case len(name) > maxVariable || !variable.MatchString(name):
		return invalid(at, "expected the name of an environment variable, letters, digits and _, but found %s", quote(name))
	case reserved.MatchString(name):
		return invalid(at, "expected a variable that plugins may be given, but found %s; PERGOLA_*, PLUGIN_*, LD_*, GOMEMLIMIT and TMPDIR are reserved", quote(name))
	default:
		return nil
	}
}

func validateMemory(at *field.Path, memory Bytes) *field.Error {
	if memory != 0 && (memory < minMemory || memory > maxMemory) {
		return invalid(at, "expected an amount from %s to %s, or 0 for no limit, but found %s", minMemory, maxMemory, memory)
	}
	return nil
}

func validateOpenFiles(at *field.Path, files int) *field.Error {
	if files != 0 && (files < minOpenFiles || files > maxOpenFiles) {
		return invalid(at, "expected a number from %d to %d, or 0 for as many as the host, but found %d", minOpenFiles, maxOpenFiles, files)
	}
	return nil
}

func validateConfinement(at *field.Path, c Confinement) field.ErrorList {
	var errs field.ErrorList
	if c.Mode != "" {
		errs = present(oneOf(at.Child("mode"), confinementModes, string(c.Mode)))
	}
	for _, list := range []struct {
		name  string
		paths []string
	}{{"read", c.Read}, {"write", c.Write}} {
		inner := at.Child(list.name)
		if c.Mode == ConfinementOff && len(list.paths) > 0 {
			errs = append(errs, invalid(inner, "has no effect with mode off; leave it out, or choose another mode"))
		}
		errs = append(errs, validateList(inner, list.paths, validateReach)...)
	}
	return errs
}

// validateHostCluster checks the ServiceAccount of a grant, if there is one.
func validateHostCluster(at *field.Path, granted *HostCluster) field.ErrorList {
	if granted == nil {
		return nil
	}
	account := granted.ServiceAccount
	return present(
		validateAccountPart(at.Child("namespace"), account.Namespace, "a namespace", validation.IsDNS1123Label),
		validateAccountPart(at.Child("name"), account.Name, "a ServiceAccount", validation.IsDNS1123Subdomain))
}

func validateAccountPart(at *field.Path, found, of string, problems func(string) []string) *field.Error {
	switch {
	case found == "":
		return field.Required(at, "is missing; the ServiceAccount is named by its namespace and its name")
	case len(problems(found)) > 0:
		return invalid(at, "expected the name of %s, but found %s", of, quote(found))
	default:
		return nil
	}
}

// validateReach checks a path that a confined plugin can reach.
func validateReach(at *field.Path, found string) *field.Error {
	switch {
	case !path.IsAbs(found) || path.Clean(found) != found:
		return invalid(at, "expected an absolute path without . and .., and without needless slashes, but found %s", quote(found))
	case found == "/":
		return invalid(at, `expected a part of the file system, but found "/", which leaves nothing to confine; use mode off for that`)
	default:
		return validatePath(at, found)
	}
}

func validatePath(at *field.Path, found string) *field.Error {
	if len(found) > maxPath || strings.Contains(found, "\x00") {
		return invalid(at, "expected a path of at most %d bytes without a null byte, but found %s", maxPath, quote(found))
	}
	return nil
}

// validateList checks each entry of a list, unless there are too many.
func validateList(at *field.Path, list []string, validate func(*field.Path, string) *field.Error) field.ErrorList {
	if len(list) > maxEntries {
		return present(invalid(at, "expected at most %d entries, but found %d", maxEntries, len(list)))
	}
	var errs field.ErrorList
	for i, entry := range list {
		errs = append(errs, present(validate(at.Index(i), entry))...)
	}
	return errs
}

// validateSet is validateList, and no entry may appear twice.
func validateSet(at *field.Path, list []string, validate func(*field.Path, string) *field.Error) field.ErrorList {
	errs := validateList(at, list, validate)
	seen := map[string]bool{}
	for i, entry := range list[:min(len(list), maxEntries)] {
		if seen[entry] {
			errs = append(errs, invalid(at.Index(i), "appears twice; leave one of them"))
		}
		seen[entry] = true
	}
	return errs
}

// present are those of errs that are not nil.
func present(errs ...*field.Error) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return err == nil })
}
