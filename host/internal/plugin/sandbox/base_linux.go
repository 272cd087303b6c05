package sandbox

// What a confined program may use without being told so. Paths that a machine does not have are passed over. Nothing of
// it is secret: /etc above all is listed file by file, for it also has private keys, /etc/shadow and, in pods, what
// people mount there.
var (
	// baseRead can be read and executed.
	baseRead = []string{
		// Programs and libraries.
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
		// Names of hosts, services and users.
		"/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/hostname", "/etc/nsswitch.conf", "/etc/gai.conf",
		"/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group",
		// Certificates of authorities.
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/cacert.pem", "/etc/pki/tls/openssl.cnf",
		"/etc/pki/ca-trust",
		"/etc/crypto-policies",
		// Time, languages, kinds of files.
		"/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/mime.types", "/etc/os-release",
		// What language runtimes want to know of the process and the machine: its limits above all.
		"/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
		"/proc/filesystems", "/proc/sys",
		"/sys/fs/cgroup", "/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/kernel/mm/transparent_hugepage",
	}
	// baseWrite can be written, too.
	baseWrite = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
	// baseVariables name files and directories in the program's environment that can be read; a directory's variable may
	// name several, with colons between them.
	baseVariables = []string{"SSL_CERT_FILE", "SSL_CERT_DIR"}
)
