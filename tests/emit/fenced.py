"""Between wgmma.fence and the commit of its group nothing but products writes a register that these products read or write (PTX ISA, "wgmma.fence").

fenced.py SKETCHC FILE...: in PTX; in CUDA C the registers of a factor are made in front of the fence."""
import re
import subprocess
import sys


def emitted(sketchc, file, form):
    return subprocess.run([sketchc, "compile", "--arch=sm_90a", f"--emit={form}", file], check=True, capture_output=True, text=True).stdout.splitlines()


def faults_of_ptx(lines):
    written, products, fenced = set(), 0, False
    for line in lines:
        line = line.strip()
        if line.startswith("wgmma.fence"):
            written, fenced = set(), True
        elif line.startswith("wgmma.commit"):
            fenced = False
        elif line.startswith("wgmma.mma_async"):
            lists = re.findall(r"\{([^}]*)\}", line)
            products += len(lists) > 1
            if not fenced:
                yield f"no fence stands in front of {line}"
            for register in sorted(written & set(re.findall(r"%\w+", " ".join(lists)))):
                yield f"{register} is written behind the fence: {line}"
        elif fenced and re.match(r"[a-z]", line):
            first = line.split(None, 1)[1].split("[")[0] if " " in line or "\t" in line else ""
            target = re.match(r"\{[^}]*\}|[^,]*", first)
            written |= set(re.findall(r"%\w+", target[0])) if target else set()
    if not products:
        yield "no product takes a factor from registers"


def faults_of_cuda(lines):
    fenced, words = False, 0
    for line in lines:
        if "wgmma_fence();" in line:
            fenced = True
        elif "wgmma_commit();" in line:
            fenced = False
        elif re.match(r"\s+(for \(.*\) )?wgmma_words_\w+\(", line):
            words += 1
            if fenced:
                yield f"behind the fence: {line.strip()}"
    if not words:
        yield "no product takes a factor from registers"


def main():
    sketchc, bad = sys.argv[1], 0
    for file in sys.argv[2:]:
        for form, faults in (("ptx", faults_of_ptx), ("cuda", faults_of_cuda)):
            for fault in faults(emitted(sketchc, file, form)):
                print(f"{file}, {form}: {fault}")
                bad += 1
    return 1 if bad else 0


sys.exit(main())
