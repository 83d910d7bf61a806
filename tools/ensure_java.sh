#!/usr/bin/env bash
# Prints the home of a Java that Spark can run on (17 or newer); installs one where that is allowed.
set -euo pipefail

wanted=17

version_of() {
  # "17.0.15" -> 17, "1.8.0_392" -> 1; nothing if it does not run
  "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\)[."].*/\1/p;s/.*version "\([0-9]*\)".*/\1/p' \
    | head -n 1
}

suits() {
  [ -x "$1/bin/java" ] || return 1
  local version
  version="$(version_of "$1/bin/java")"
  [ -n "$version" ] && [ "$version" -ge "$wanted" ]
}

home_of() {
  local path
  path="$(readlink -f "$1" 2>/dev/null || echo "$1")"
  dirname "$(dirname "$path")"
}

find_java() {
  local candidate
  if [ -n "${JAVA_HOME:-}" ] && suits "$JAVA_HOME"; then
    echo "$JAVA_HOME"
    return 0
  fi
  if command -v java >/dev/null 2>&1; then
    candidate="$(home_of "$(command -v java)")"
    if suits "$candidate"; then
      echo "$candidate"
      return 0
    fi
  fi
  if [ -x /usr/libexec/java_home ]; then
    candidate="$(/usr/libexec/java_home -v "$wanted+" 2>/dev/null || true)"
    if [ -n "$candidate" ] && suits "$candidate"; then
      echo "$candidate"
      return 0
    fi
  fi
  for candidate in /usr/lib/jvm/* /opt/homebrew/opt/openjdk* /usr/local/opt/openjdk*; do
    if suits "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

install_with_apt() {
  local run=() package
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || return 1
    run=(sudo -n)
  fi
  "${run[@]}" apt-get update -qq >&2 || true
  for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
    echo "Installing $package, because Spark needs Java $wanted or newer ..." >&2
    if "${run[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "$package" >&2; then
      return 0
    fi
  done
  return 1
}

find_java && exit 0
if command -v apt-get >/dev/null 2>&1; then
  install_with_apt && find_java && exit 0
elif command -v brew >/dev/null 2>&1; then
  echo "Installing openjdk@17, because Spark needs Java $wanted or newer ..." >&2
  brew install --quiet openjdk@17 >&2 && find_java && exit 0
fi

cat >&2 <<MESSAGE
Spark needs Java $wanted or newer, and none was found (JAVA_HOME, PATH, /usr/lib/jvm).
  Debian, Ubuntu:  apt-get install openjdk-17-jre-headless
  macOS:           brew install openjdk@17
  elsewhere:       install a Java runtime and set JAVA_HOME to its directory
What does not need Spark (braid check, braid.run, braid.Engine) works without Java.
MESSAGE
exit 1
