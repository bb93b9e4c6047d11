# Made by make dist.
class Tidegate < Formula
  desc "API gateway that speaks the Admin API of Apache APISIX"
  homepage "@URL@"
  url "@FILES@/@ARCHIVE@"
  sha256 "@SHA256@"
  license "Apache-2.0"
  version "@VERSION@"

  depends_on :linux
  depends_on arch: :@BREW_ARCH@

  def install
    bin.install "tidegate"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/tidegate.bash" => "tidegate"
    zsh_completion.install "completions/_tidegate"
    fish_completion.install "completions/tidegate.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tidegate version")
    system bin/"tidegate", "init", "--prefix", testpath
    assert_path_exists testpath/"conf/config.yaml"
  end
end
