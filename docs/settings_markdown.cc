// Prints docs/settings.md.

#include <cstdio>
#include <string>

#include "base/settings.h"

int main() {
  const std::string page = gradwire::SettingsMarkdown();
  return std::fwrite(page.data(), 1, page.size(), stdout) == page.size() ? 0 : 1;
}
