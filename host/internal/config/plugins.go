package config

import (
	"cmp"
	"encoding/json"
)

// Verification decides about programs in the plugin directory without a checksum. In a document off needs no quotes,
// and false stands for it.
type Verification string

// The values of a Verification.
const (
	// VerificationRequired runs only those with a SHA256 in Plugins.
	VerificationRequired Verification = "required"
	// VerificationOff runs those without one, too.
	VerificationOff Verification = "off"
)

// Plugin has the settings of one plugin. The zero value is that of a plugin without an entry.
type Plugin struct {
	// File is the name of the program in the plugin directory. Empty, the default, for the name of the plugin.
	File string `json:"file"`
	// Image with the program, in the place of a file in the plugin directory. It has a digest, or the program a SHA256.
	// Empty, the default, for a file in the plugin directory.
	Image string `json:"image"`
	// Path of the program in the Image, absolute. Empty, the default, for that of File in the root.
	Path string `json:"path"`
	// SHA256 of the program, 64 lower-case hexadecimal digits: another one is not run. Empty, the default, for any.
	SHA256 string `json:"sha256"`
	// Args are the arguments of the program. None by default.
	Args []string `json:"args,omitempty"`
	// Environment names variables of the host for the plugin, besides those for every plugin. None by default.
	Environment []string `json:"environment,omitempty"`
	// Workers for this plugin; 0, the default, for those of the HostConfiguration.
	Workers int `json:"workers"`
	// WorkersPerTarget are the most of them for DeployItems of one Target; 0, the default, for as many as the plugin
	// allows.
	WorkersPerTarget int `json:"workersPerTarget"`
	// DefaultTimeout is the longest time of a job without spec.timeout, up to 168h; 0s, the default, for that of the
	// plugin, or 10m.
	DefaultTimeout Duration `json:"defaultTimeout"`
	// Memory is the resident memory limit of the plugin, together with its child processes; above it the plugin is
	// killed and started again; from 64Mi to 1Ti. 0, the default, for no limit.
	Memory Bytes `json:"memory"`
	// OpenFiles is how many files one process of the plugin may have open, 64 to 1048576; 0, the default, for as many
	// as the host.
	OpenFiles int `json:"openFiles"`
	// Confinement of the plugin. By default it is confined to the common needs of plugins, where the kernel supports
	// it.
	Confinement Confinement `json:"confinement"`
	// HostCluster grants the plugin access to the cluster of the host. Nil, the default, for none.
	HostCluster *HostCluster `json:"hostCluster,omitempty"`
	// Config is the configuration document of the plugin itself, an object, as JSON. Nil, the default, if there is
	// none.
	Config json.RawMessage `json:"config,omitempty"`
}

// EffectiveFile is the name of the program of a plugin: File, or without one the name of the plugin.
func (p Plugin) EffectiveFile(name string) string { return cmp.Or(p.File, name) }

// HostCluster is the identity of a plugin in the cluster of the host.
type HostCluster struct {
	// ServiceAccount of that cluster. The plugin has its rights and none of the host's own. Required.
	ServiceAccount ServiceAccount `json:"serviceAccount"`
}

// ServiceAccount names one. Both fields are required.
type ServiceAccount struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Confinement restricts the files of a plugin. The zero value confines it to the common needs of plugins, where the
// kernel supports it.
type Confinement struct {
	// Mode of the confinement. Empty, the default, stands for ConfinementAuto.
	Mode ConfinementMode `json:"mode"`
	// Read are additional paths for the plugin to read and execute: files, and directories with all of their content.
	// They are absolute and clean, and not the root. None by default.
	Read []string `json:"read,omitempty"`
	// Write are paths, as in Read, with the right to write. None by default.
	Write []string `json:"write,omitempty"`
}

// EffectiveMode is the mode in force: Mode, or without one ConfinementAuto.
func (c Confinement) EffectiveMode() ConfinementMode { return cmp.Or(c.Mode, ConfinementAuto) }

// ConfinementMode says whether a plugin is confined. In a document off needs no quotes, and false stands for it.
type ConfinementMode string

// The values of a ConfinementMode.
const (
	// ConfinementAuto confines the plugin as far as the kernel offers it.
	ConfinementAuto ConfinementMode = "auto"
	// ConfinementRequired does not start the plugin where the kernel offers no confinement.
	ConfinementRequired ConfinementMode = "required"
	// ConfinementOff does not confine the plugin.
	ConfinementOff ConfinementMode = "off"
)
